import os
print(list(os.environ.items()))
os.putenv("PUT", "x")
os.system("echo $PUT $PATH")
