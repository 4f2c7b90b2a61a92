# HAS_LIBFUZZER: clang is there, and so is its run time, which is a package of its own (libclang-rt-14-dev).
HAS_LIBFUZZER := $(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
    clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo yes)
