# The C of a line, turned by hand on a stage: what its peer sends is fuzzed (link_fuzz.c), and two of them are cut (link_cuts.c).
#
#   make -f link.mk fuzz [SEED=1] [ROUNDS=…] [SECONDS=…]        make -f link.mk mutants: do they see what they are for?
#   make -f link.mk cuts [SEED=1] [ROUNDS=…]                    make -f link.mk threads [SECONDS=…]: ThreadSanitizer
#   make -f link.mk inputs CORPUS=FOLDER [SEED=1] [ROUNDS=…]    the first with what real lines carry (link_corpus.py), changed
#   make -f link.mk greet KEYS='PEM DER STRANGER' [SEED=1] [ROUNDS=…]  handshake and hello, with bytes changed on the way
#   make -f link.mk libfuzzer [SECONDS=…] [CORPUS=FOLDER]       the first with libFuzzer, where clang has it
CC := $(if $(filter default,$(origin CC)),$(or $(shell command -v gcc),cc),$(CC))
LINK := ../../../rtmw/net/link
NET := ../../../rtmw/net/route
SHM := ../../../rtmw/shm
BUILD := build
LINES := $(filter-out _%,$(notdir $(basename $(wildcard $(LINK)/*.c))))
SHARED := carried sending trailer
HEADERS := $(wildcard $(LINK)/*.h $(NET)/*.h $(SHM)/*.h) link_stage.h link_peer.h require.h
SANITIZE := -fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=all -fno-omit-frame-pointer
FLAGS := -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread $(SANITIZE) -I$(LINK) -I$(NET) -Depoll_wait=stage_epoll_wait
OBJECTS := $(LINES:%=$(BUILD)/line_%.o) $(SHARED:%=$(BUILD)/line_net_%.o) $(BUILD)/line_crc32c.o $(BUILD)/link_stage.o
SOURCES := $(LINES:%=$(LINK)/%.c) $(SHARED:%=$(NET)/%.c) $(SHM)/crc32c.c link_stage.c
SEED := 1
ROUNDS := 1000000000
SECONDS := 60
CORPUS := $(BUILD)/link_corpus

export ASAN_OPTIONS := detect_leaks=1:abort_on_error=1:handle_abort=0

.PHONY: build fuzz cuts inputs greet libfuzzer with_libfuzzer without_libfuzzer mutants clean
build: $(BUILD)/link_fuzz $(BUILD)/link_cuts $(BUILD)/link_input $(BUILD)/link_greet

fuzz: $(BUILD)/link_fuzz
	@$< $(SEED) $(ROUNDS) $(SECONDS)

cuts: $(BUILD)/link_cuts
	@$< $(SEED) $(ROUNDS)

inputs: $(BUILD)/link_input
	@$< $(SEED) $(ROUNDS) $(wildcard $(CORPUS)/carried_*)

greet: $(BUILD)/link_greet
	@$< $(SEED) $(ROUNDS) $(KEYS)

include libfuzzer.mk
libfuzzer: $(if $(HAS_LIBFUZZER),with_libfuzzer,without_libfuzzer)
without_libfuzzer:
	@echo "libFuzzer is not here: apt-get install clang libclang-rt-14-dev"
with_libfuzzer:
	@mkdir -p $(CORPUS)
	clang $(filter-out -Werror,$(FLAGS)) -fsanitize=fuzzer -o $(BUILD)/link_libfuzzer link_fuzz.c link_peer.c $(SOURCES)
	$(BUILD)/link_libfuzzer -max_total_time=$(SECONDS) -max_len=8192 $(CORPUS)

mutants: build
	@./link_mutate.sh $(LINK) $(BUILD) $(CC) $(FLAGS)

clean:
	rm -rf $(BUILD)

$(BUILD)/line_net_%.o: $(NET)/%.c $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/line_crc32c.o: $(SHM)/crc32c.c
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/line_%.o: $(LINK)/%.c $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/link_main.o: engine_main.c
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -DINPUT_MOST=8000 -c -o $@ $<
$(BUILD)/link_fuzz: $(OBJECTS) $(BUILD)/link_fuzz.o $(BUILD)/link_peer.o $(BUILD)/link_main.o
	@$(CC) $(FLAGS) -o $@ $^
# One input, from a file.
$(BUILD)/link_input: $(OBJECTS) $(BUILD)/link_fuzz.o $(BUILD)/link_peer.o $(BUILD)/link_input.o
	@$(CC) $(FLAGS) -o $@ $^
$(BUILD)/link_greet: $(OBJECTS) $(BUILD)/link_greet.o
	@$(CC) $(FLAGS) -o $@ $^
$(BUILD)/link_cuts: $(OBJECTS) $(BUILD)/link_cuts.o
	@$(CC) $(FLAGS) -o $@ $^

# With all threads, on a real bus.
NATIVE := ../../native
CORE := $(filter-out $(SHM)/_%.c,$(wildcard $(SHM)/*.c))
THREADED := link_threads.c $(NATIVE)/native.c $(CORE) $(LINES:%=$(LINK)/%.c) $(SHARED:%=$(NET)/%.c) $(NET)/now.c
$(BUILD)/link_threads: $(THREADED) $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread -fsanitize=thread -Dmmap=native_mmap \
	    -Dmunmap=native_munmap -I$(SHM) -I$(NATIVE) -o $@ $(THREADED)

.PHONY: threads
threads: export TSAN_OPTIONS := halt_on_error=1 second_deadlock_stack=1
threads: $(BUILD)/link_threads
	@$< $(SECONDS) $(KEYS)
