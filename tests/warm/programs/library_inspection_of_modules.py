import json
import os
import random
print(json.__file__, os.__file__, json.__spec__.name, json.__spec__.origin == json.__file__, json.__cached__ is not None)
print(json.__loader__.__class__.__name__, json.decoder.__name__, random.__doc__[:24], os.__spec__.origin)
