raise ValueError("lone \udc80 surrogate")
