raise ValueError("first\nsecond\n  third")
