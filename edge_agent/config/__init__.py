"""The TOML schema, one file a section; validation never touches hardware or network."""
