"""The cases of the OMG's interoperability tests (omg-dds/dds-rtps), with rtmw as one of the two sides.

The names and what they ask for are the OMG's, of its list of 2026-07; the programs, and all that is here, are not: its
licence lets nobody pass those on.
"""
