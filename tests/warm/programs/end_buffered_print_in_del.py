class Noisy:
    def __del__(self):
        print("late", end="")


kept = Noisy()
print("early", end=" ")
