import subprocess
print(subprocess._args_from_interpreter_flags(), subprocess._optim_args_from_interpreter_flags())
