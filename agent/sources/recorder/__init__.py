"""PyTorch's flight recorder as a source: where a rank offers it, and how its parts are put together."""
