"""Where answers come from: this machine, a collector, or files. All three are asked the same way."""
