"""Does a rank that others wait for demonstrably work, and with what?"""
