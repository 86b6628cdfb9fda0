"""The KServe v2 wire format, pure: HTTP and MQTT speak it through the same functions."""
