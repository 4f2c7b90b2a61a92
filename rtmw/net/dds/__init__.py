"""Topics over DDS: which of them cross (bridge.py), and the engine that carries them (engine.h)."""
