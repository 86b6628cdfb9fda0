"""The KServe v2 wire format, pure: bytes in, values out."""
