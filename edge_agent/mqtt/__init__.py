"""The connection to the broker: paho-mqtt lives here and nowhere else."""
