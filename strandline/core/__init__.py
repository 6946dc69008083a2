"""The pure core: values and state machines, without a clock, without randomness, without input or output."""
