class Noisy:
    def __del__(self):
        import colorsys
        print(colorsys)


kept = Noisy()
print("end")
