import os
import random
import uuid
state = random.getstate()
values = [random.random() for _ in range(3)]
random.setstate(state)
print(values == [random.random() for _ in range(3)], len(set(values)), len(os.urandom(8)), uuid.uuid4().version)
random.seed(42)
print(random.random(), random.sample(range(100), 5), random.Random(1).gauss(0, 1))
