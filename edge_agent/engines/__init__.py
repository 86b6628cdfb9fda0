"""The main process's side of the engine hosts."""
