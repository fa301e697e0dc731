raise GeneratorExit("x")
