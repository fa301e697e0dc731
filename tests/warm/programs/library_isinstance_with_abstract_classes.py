import collections.abc
import numbers


class Sized:
    def __len__(self):
        return 1


collections.abc.Sequence.register(Sized)
print(isinstance(Sized(), collections.abc.Sized), isinstance(Sized(), collections.abc.Sequence), isinstance(1, numbers.Integral))
