# The fuzzer of what a node makes of samples of others: see engine_fuzz.c.
#
#   make -f engine.mk fuzz [SEED=1] [ROUNDS=…] [SECONDS=…]        make -f engine.mk mutants: does it see what it is for?
#   make -f engine.mk libfuzzer [SECONDS=…]                       the same with libFuzzer, where clang has it
CC := $(if $(filter default,$(origin CC)),$(or $(shell command -v gcc),cc),$(CC))
NET := ../../../rtmw/net/dds
ROUTE := ../../../rtmw/net/route
SHM := ../../../rtmw/shm
BUILD := build
PARTS := inbound library zero_copy sources flow
SHARED := trailer carried
HEADERS := $(wildcard $(NET)/*.h $(ROUTE)/*.h) engine_stage.h require.h
SANITIZE := -fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=all -fno-omit-frame-pointer
FLAGS := -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread $(SANITIZE) -I$(NET) \
	-Dposix_fallocate=stage_posix_fallocate
OBJECTS := $(BUILD)/engine_fuzz.o $(BUILD)/engine_stage.o $(BUILD)/engine_main.o $(PARTS:%=$(BUILD)/net_%.o) $(SHARED:%=$(BUILD)/net_%.o) $(BUILD)/net_crc32c.o
SEED := 1
ROUNDS := 1000000000
SECONDS := 60

export ASAN_OPTIONS := detect_leaks=0:abort_on_error=1:handle_abort=0

# What is counted as lost: engine_gaps.c.
.PHONY: build fuzz limits gaps libfuzzer with_libfuzzer mutants clean
build: $(BUILD)/engine_fuzz $(BUILD)/engine_limits $(BUILD)/engine_gaps

fuzz: $(BUILD)/engine_fuzz
	@$< $(SEED) $(ROUNDS) $(SECONDS)

limits: $(BUILD)/engine_limits
	@$<

gaps: $(BUILD)/engine_gaps
	@$<

include libfuzzer.mk
libfuzzer: $(if $(HAS_LIBFUZZER),with_libfuzzer,fuzz)
with_libfuzzer:
	@mkdir -p $(BUILD)/corpus
	clang $(filter-out -Werror,$(FLAGS)) -fsanitize=fuzzer -o $(BUILD)/engine_libfuzzer engine_fuzz.c engine_stage.c $(PARTS:%=$(NET)/%.c) $(SHARED:%=$(ROUTE)/%.c) $(SHM)/crc32c.c
	$(BUILD)/engine_libfuzzer -max_total_time=$(SECONDS) -max_len=4096 $(BUILD)/corpus

mutants: build
	@./engine_mutate.sh $(NET) $(BUILD) $(CC) $(FLAGS)

clean:
	rm -rf $(BUILD)

$(BUILD)/net_%.o: $(NET)/%.c $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/net_%.o: $(ROUTE)/%.c $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/net_crc32c.o: $(SHM)/crc32c.c
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(FLAGS) -c -o $@ $<
$(BUILD)/engine_fuzz: $(OBJECTS)
	@$(CC) $(FLAGS) -o $@ $(OBJECTS)
$(BUILD)/engine_limits $(BUILD)/engine_gaps: $(BUILD)/%: $(BUILD)/%.o $(filter-out %/engine_fuzz.o %/engine_main.o,$(OBJECTS))
	@$(CC) $(FLAGS) -o $@ $^
