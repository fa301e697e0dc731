import sys
for number in range(30000):
    print("line", number)
sys.stdout.write("x" * 300000)
