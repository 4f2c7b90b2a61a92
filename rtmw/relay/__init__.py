"""The relay (R): orders between agents through a server that limits who may tell whom what. See docs/relay.md.

`frame` and `kqml` are what agents speak; `settings` and `policy` say who they are, and what each may tell whom.
"""

from rtmw.relay.frame import Form, Frame, FrameError, Splitter
from rtmw.relay.kqml import KqmlError, Performative
from rtmw.relay.rows import Row

__all__ = ["Form", "Frame", "FrameError", "KqmlError", "Performative", "Row", "Splitter"]
