#!/bin/sh
# Does the fuzzer see what it is for? Each mutant is the core without one of its bounds; some round must fail.
#
#   mutate.sh CORE BUILD COMPILER FLAGS...       with the objects of the fuzzer and of the whole core in BUILD
#   ONLY=TEXT                                    those whose name contains the text
set -u
folders=$1 build=$2 prefix=core
shift 2
. ../mutant.sh

run() { "$1" 1 600 300 2; }

objects_of() { echo "$build/fuzz.o $build/damage.o $build/operations.o $build/native.o"; }

mutant fuzz "a message may be longer than its block" descriptors 's/ \|\| size > granules \* GRANULE\) return NULL;/) return NULL;/' "$@"
mutant fuzz "a message in place may be longer than its place" take 's/payload_of\(s->region, d, size\)/(load_relaxed(\&d->block_granules) ? block_of(s->region, d, size) : (void *)d->payload)/' "$@"
mutant fuzz "a block may lie beyond the pool" descriptors 's/first >= all \|\| granules > all - first \|\| //' "$@"
mutant fuzz "the size of a message is read twice" take 's/\.size = size,/.size = load_relaxed(\&d->size),/' "$@"
mutant fuzz "a link may lead anywhere" queue 's/if \(to >= r->header->descriptors\) return to == NIL \? STEP_NONE : STEP_DAMAGED;/if (to == NIL) return STEP_NONE;/' "$@"
mutant fuzz "links may lead in a circle" queue 's/(static bool is_message.*)/\1/; s/return \(\(load_relaxed\(&r->descriptors\[index\]\.sequence\) \^ sequence\) & TAG_MASK\) == 0;/return true;/' "$@"
mutant fuzz "head may name anything" queue 's/if \(\*index >= r->header->descriptors\) return/if (*index == NIL) return/' "$@"
mutant fuzz "an append is tried for ever" queue '/^static bool link_descriptor/,/^}/ s/in_vain < MOST_IN_VAIN/true/' "$@"
mutant fuzz "a beginning at tail is tried for ever" take '/^static bool start_at_tail/,/^}/ s/in_vain < MOST_IN_VAIN/true/' "$@"
mutant fuzz "waiters are told of what takes do not get" take 's/ && \+\+s->empty_takes % LOOK_AGAIN == 0\)/ \&\& false)/' "$@"
mutant fuzz "a descriptor may lie in a band that is none" inspect 's/ && band < BANDS && / \&\& /' "$@"

none_survived
