"""Files of transfers (T4, T9): read where they lie, written in place, seen by nobody before they are whole.

`source` reads a file and notices that it has changed; `beneath` opens nothing outside of a folder; `staging` takes a
file, or the files of a composite, below a folder; `disk` is the seam to the system. No network and no log in here.
docs/design/transfer.md has the reasons.
"""
