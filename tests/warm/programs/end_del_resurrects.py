kept = []


class Phoenix:
    def __del__(self):
        print("rising")
        kept.append(self)


Phoenix()
print(len(kept))
