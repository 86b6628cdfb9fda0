"""Where frames and messages come in and results go out."""
