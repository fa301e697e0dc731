error = ValueError("noted")
error.add_note("first note\nof two lines")
error.add_note("second")
raise error
