import gc


def callback(phase, info):
    print(phase, info["generation"], sorted(info))


gc.callbacks.append(callback)
print("end")
