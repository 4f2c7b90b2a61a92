#!/bin/sh
# Does the rig see what it is for? Each mutant is the log without one of its precautions; the rig must find harm.
#
#   mutate.sh LOG BUILD COMPILER FLAGS...        with the objects of the rig and of the log in BUILD
#   ONLY=TEXT                                    those whose name contains the text
#   PARTS=power                                  those of this part of the rig; else all but those of `power`, which need root
set -u
log=$1 build=$2
shift 2
mkdir -p "$build/mutants"
survived=0
patience="${PATIENCE_S:-300}"
export PATIENCE_S
hangs="a full disk is told when the segment is full" # which is seen by that

# mutant NAME PART AMOUNT FILE SED-PROGRAM
mutant() {
    name=$1 part=$2 amount=$3 file=$4 program=$5 source=$build/mutants/$4
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    case " ${PARTS:-cuts faults rot replica} " in *" $part "*) ;; *) return ;; esac
    shift 5
    sed -E "$program" "$log/$file.c" >"$source.c"
    if cmp -s "$log/$file.c" "$source.c"; then
        echo "mutant $name: the line it changes is not in $file.c any more" >&2
        survived=$((survived + 1))
        return
    fi
    others=$(ls "$build"/*.o | grep -v "/log_$file\.o$")
    # shellcheck disable=SC2086  # lists of words
    "$@" -Wno-error -w -I"$log" -c -o "$source.o" "$source.c" && "$@" -o "$build/mutants/rig" "$source.o" $others || exit 1
    case $name in "$hangs") PATIENCE_S=20 ;; *) PATIENCE_S=$patience ;; esac
    harm=no
    for seed in 1 2 3 4 5 6 7 8; do # whether a life comes by what the mutant spoils is chance
        found=$("$build/mutants/rig" "$part" "$seed" "$amount" 2>&1 >/dev/null) || { harm=yes && break; }
    done
    if [ $harm = no ]; then
        echo "mutant $name: SURVIVED" >&2
        survived=$((survived + 1))
    elif echo "$found" | grep -q "it goes on for ever" && [ "$name" != "$hangs" ]; then
        echo "mutant $name: NOT FOUND within $PATIENCE_S s" >&2
        survived=$((survived + 1))
    else
        echo "mutant $name: found, $(echo "$found" | grep -E '^WRONG ' | cut -c 7-110)"
    fi
}

mutant "a batch is answered without a sync" cuts 2 flush '/^static int commit/,/^}/ s/io->sync\(io->disk, w->last\.file\)/0/' "$@"
mutant "readers are told before the sync" cuts 2 flush '/^static int commit/,/^}/ s/int error = io_write_all/tell_readers(w, lsn + size, fault); int error = io_write_all/' "$@"
mutant "what is written ahead counts as durable" cuts 2 flush 's/(batch->written \+= size;)/\1 tell_readers(w, batch->first + batch->written, \&fault);/' "$@"
mutant "the next batch is taken to be written ahead, too" cuts 2 flush 's/batch->records = batch->written = 0/batch->records = 0/' "$@"
mutant "a write ahead that failed counts" faults 1 flush '/^int writer_write_batch_ahead/,/^}/ s/if \(code\) writer_fail\(w, &fault\);//' "$@"
mutant "a sync that failed counts" faults 1 flush '/"fdatasync"/d' "$@"
mutant "a write that failed counts" faults 1 flush '/^static int commit/,/^}/ s/if \(error\) return fail_with\(w, fault, "write", error\);//' "$@"
mutant "a sync that failed is tried again" faults 1 flush '/^static int commit/,/^}/ s/(error = io->sync\(io->disk, w->last\.file\);)/\1 if (error) \1/' "$@"
mutant "the watermark says what is not durable yet" cuts 2 flush '/^static int commit/,/^}/ s/(segment_write_mark\(&w->folder, &w->last, lsn)/\1 + size/' "$@"
mutant "the watermark is not looked at" rot 97 recover 's/if \(found->end < least\)/if (0)/' "$@"
mutant "no watermark is written" rot 97 flush 's/segment_write_mark\(&w->folder, &w->last, load_relaxed\(&w->durable\), flags\)/0/' "$@"
mutant "a segment gets its name before it is synced" cuts 3 segment '/^int spare_name/,/^}/ s/io->sync\(io->disk, spare->file\)/0/' "$@"
mutant "no sync of the folder at a roll" cuts 3 segment '/^int spare_name/,/^}/ s/io->sync_folder\(io->disk, folder->folder\)/0/' "$@"
mutant "no sync of the folder when a log is made" cuts 2 recover '/^static int make_identity/,/^}/ s/io->sync_folder\(io->disk, folder->folder\)/0/' "$@"
mutant "copied segments are not synced before the log comes into being" replica 3 recover '/^static int check_segment\(/,/^}/ s/folder->io->sync\(folder->io->disk, s.file\)/0/' "$@"
mutant "the identity gets its name before it is synced" cuts 2 recover '/^static int make_identity/,/^}/ s/io->sync\(io->disk, file\)/0/' "$@"
mutant "nothing is zeroed behind a cut" cuts 6 recover 's/error = recover_zero\(folder, s, found.*;/error = 0;/' "$@"
mutant "what lies behind is not zeroed after a failed sync" faults 1 recover 's/(count < 0 \? \(int\)count : )io_write_all\(folder->io, s->file, zeros/\1is_zero(there, (size_t)count) ? 0 : io_write_all(folder->io, s->file, zeros/' "$@"
mutant "what was found is not written again" faults 1 recover 's/error = write_again\(folder, s, mark->durable, found->end\);/error = 0;/' "$@"
mutant "what was found is not synced" cuts 3 recover '/^static int make_end_durable/,/^}/ s/error = io->sync\(io->disk, s->file\)/error = 0/' "$@"
mutant "the mark is written before what it says is durable" cuts 3 recover '/^static int make_end_durable/,/^    if \(!error\) error = segment_write_mark/ s/error = io->sync\(io->disk, s->file\)/error = 0/' "$@"
mutant "the folder is not synced by recovery" cuts 6 recover '/^static int make_end_durable/,/^}/ s/error = io->sync_folder\(io->disk, folder->folder\)/error = 0/' "$@"
mutant "a clean mark stays while it is written" cuts 20 recover 's/if \(is_clean && !to_write\)/if (is_clean)/' "$@"
mutant "half a batch is kept" cuts 3 recover 's/if \(!\(head\.flags & RECORD_MORE\)\) \*end = lsn/*end = lsn/' "$@"
mutant "the CRC is not looked at" rot 97 record 's/return crc_of\(bytes, size, seed\) == crc;/return true;/' "$@"
mutant "ids behind the snapshot are not read" cuts 2 ids 's/return code \? code : add_records\(.*/return code;/' "$@"
mutant "a snapshot says that it covers what it does not hold" cuts 4 ids 's/if \(entry->position >= upto\) break;/if (entry->position >= upto \/ 2) break;/' "$@"
mutant "a segment goes before the start is durable" cuts 2 folder '/^int marks_change/,/^}/ s/folder->io->sync\(folder->io->disk, file\.file\)/0/' "$@"
mutant "recovery removes what lies before a start that is not durable" cuts 6 recover 's/int code = bases->before \? start_write\(folder, bases->start, fault\) : LOG_OK;/int code = LOG_OK;/' "$@"
mutant "ids of what is trimmed are not kept" cuts 6 maker 's/before > w->earliest \? keep_ids\(w, before, fault\) : LOG_OK/LOG_OK/' "$@"
mutant "more is trimmed than was asked for" cuts 2 maker '/^int trim\(/,/^}/ s/if \(bases\.of\[n\] <= before\)/if (bases.of[n] <= before + SEGMENT_LEAST)/' "$@"
mutant "a commit is answered without a sync" cuts 2 folder '/^int marks_change/,/^}/ s/folder->io->sync\(folder->io->disk, file\.file\)/0/' "$@"
mutant "a cursor gets its name before it is synced" cuts 6 folder '/^int marks_make/,/^}/ s/error = io->sync\(io->disk, file\.file\)/error = 0/' "$@"
mutant "no sync of the folder when a cursor is made" cuts 6 folder '/^int marks_make/,/^}/ s/error = io->sync_folder\(io->disk, folder->folder\)/error = 0/' "$@"
mutant "a compacted segment gets its name before it is synced" cuts 4 maker '/^static int finish_copy/,/^}/ s/io->sync\(io->disk, c->copy\.file\)/0/' "$@"
mutant "compaction is said to be done before the folder is synced" cuts 4 maker '/^static int say_compacted/,/^}/ s/io->sync_folder\(io->disk, c->folder\.folder\)/0/' "$@"
mutant "compaction leaves one record too few" cuts 4 maker 's/>= c->per_key;/>= c->per_key - 1;/' "$@"
mutant "ids of what compaction removes are not kept" cuts 6 maker 's/int code = keep_ids\(w, kept, fault\);/int code = LOG_OK;/; s/if \(code \|\| \(w->ids\.count && w->ids_upto < kept\)\) return code;//' "$@"
mutant "the name of the snapshot of ids is not synced before it is trusted" cuts 1 ids 's/int code = read_snapshot\(folder, end, \&there\) \? make_name_durable\(folder, fault\) : LOG_OK;/int code = (read_snapshot(folder, end, \&there), LOG_OK);/' "$@"
mutant "compaction goes on to a segment that a roll seals meanwhile" cuts 1 maker 's/if \(limits\.floor > kept\) limits\.floor = kept;//' "$@"
mutant "a gap is passed over wherever a record is spoiled" rot 97 reader 's/bool is_spoiled = .*/if (r->segment.is_compacted) r->position = r->segment.end; bool is_spoiled = false;/' "$@"
mutant "a write into a compacted segment that failed counts" faults 1 maker 's/if \(error\) return failed\("write", error, fault\);/if (error) c->unsynced = 0;/' "$@"
mutant "who takes a cursor does not sync its name" faults 1 folder '/^int cursor_take/,/^}/ s/folder->io->sync_folder\(folder->io->disk, folder->folder\)/0/' "$@"
mutant "a full disk is told when the segment is full" faults 1 writer 's/if \(w->spare_state == SPARE_FULL\) return ends && fits \? LOG_OK : LOG_FULL;//' "$@"

mutant "records lie behind the reach of each durable mark" cuts 12 flush 's/if \(offset \+ size > w->last\.reach && /if (0 \&\& /' "$@"
mutant "an appender flushes beside another one" cuts 6 writer 's/return w->flusher_sleeps && !w->flushes && /return w->flusher_sleeps \&\& /' "$@"

mutant "a truncation begins before it is said" replica 1 recover 's/if \(!code && to < found\.end\) code = say\(folder, to, TRUNCATION_BEGUN, fault\);//' "$@"
mutant "recovery does not complete a truncation" replica 1 recover 's/folder->is_replicated \? truncate_complete\(folder, fault\) : LOG_OK/LOG_OK/' "$@"
mutant "recovery trusts what is said of a truncation and not synced" replica 1 recover 's/if \(mark\.number > TRUNCATION_MADE\) code = say\(folder, mark\.durable, mark\.flags, fault\);//' "$@"
mutant "a truncation is over before the folder is synced" replica 1 recover '/^static int lower_end/,/^}/ s/io->sync_folder\(io->disk, folder->folder\)/0/' "$@"
mutant "a truncation is over before the file end is durable" replica 1 recover '/^static int lower_end/,/^}/ s/error = io->sync\(io->disk, file\)/error = 0/' "$@"
mutant "a truncation zeroes nothing" replica 1 recover 's/error = code \? 0 : recover_zero\(.*/error = 0;/' "$@"
mutant "a truncation is over before its mark is durable" replica 1 recover '/^static int cut_segment/,/^}/ s/error = io->sync\(io->disk, s\.file\)/error = 0/' "$@"
mutant "a truncation leaves the ids of what goes" replica 1 recover 's/code = ids_truncate\(folder, to, fault\)/code = LOG_OK/' "$@"
mutant "a truncation loses the ids of what was trimmed" replica 2 ids 's/while \(there\.count && there\.entries\[there\.count - 1\]\.position >= end\) there\.count--;/there.count = 0;/' "$@"
mutant "readers of a replica are shown what is durable" replica 1 flush 's/end = durable < w->committed \? durable : w->committed;/end = durable;/' "$@"
mutant "readers of a replica are shown what is final and not durable" replica 1 flush 's/end = durable < w->committed \? durable : w->committed;/end = w->committed;/' "$@"
mutant "recovery of a replica shows all that is durable" replica 1 recover 's/if \(folder->is_replicated\) found->shown = .*//' "$@"
mutant "the ids of raw batches are not noted" replica 1 writer 's/if \(id_batch_pass\(id, &record\.head.*//' "$@"
mutant "a batch has the id of its last record" replica 1 ids 's/bool is_first = !b->is_inside;/bool is_first = true;/' "$@"
mutant "half a raw batch is shipped" replica 1 reader '/^int reader_raw/,/^}/ s/if \(record\.head\.flags & RECORD_MORE\) continue;//' "$@"
mutant "an epoch that changes within a segment is not seen" replica 1 reader 's/bool changes = is_last \|\| next != first;/bool changes = is_last;/' "$@"
mutant "a switch within the last segment is not seen" replica 1 reader 's/bool changes = is_last \|\| next != first;/bool changes = !is_last \&\& next != first;/' "$@"

mutant "on ext4 a batch is answered without a sync" power 500 flush '/^static int commit/,/^}/ s/io->sync\(io->disk, w->last\.file\)/0/' "$@"
mutant "on ext4 the watermark is not looked at" power 500 recover 's/if \(found->end < least\)/if (0)/' "$@"
mutant "on ext4 no watermark is written" power 500 flush '/^static int commit/,/^}/ s/segment_write_mark\(&w->folder, &w->last, lsn, .*\);/0;/' "$@"
mutant "on ext4 no sync of the folder at a roll" power 1000 segment '/^int spare_name/,/^}/ s/io->sync_folder\(io->disk, folder->folder\)/0/' "$@"
mutant "on ext4 no sync of the folder when a log is made" power 500 recover '/^static int make_identity/,/^}/ s/io->sync_folder\(io->disk, folder->folder\)/0/' "$@"
mutant "on ext4 a segment gets its name before it is synced" power 1000 segment '/^int spare_name/,/^}/ s/io->sync\(io->disk, spare->file\)/0/' "$@"
mutant "on ext4 the watermark says what is not durable yet" power 1000 flush '/^static int commit/,/^}/ s/(segment_write_mark\(&w->folder, &w->last, lsn)/\1 + size/' "$@"
mutant "on ext4 half a batch is kept" power 5000 recover 's/if \(!\(head\.flags & RECORD_MORE\)\) \*end = lsn/*end = lsn/' "$@"
mutant "on ext4 a compacted segment gets its name before it is synced" power 500 maker '/^static int finish_copy/,/^}/ s/io->sync\(io->disk, c->copy\.file\)/0/' "$@"
mutant "on ext4 compaction is said to be done before the folder is synced" power 1000 maker '/^static int say_compacted/,/^}/ s/io->sync_folder\(io->disk, c->folder\.folder\)/0/' "$@"

[ "$survived" -eq 0 ] || { echo "$survived mutants survived" >&2; exit 1; }
