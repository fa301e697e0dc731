import gc
thing = ["mine"]
holder = {"thing": thing}
print(len(gc.get_referrers(thing)), gc.is_tracked(thing), gc.get_referents(holder) == ["thing", ["mine"]] or True)
print(any(found is thing for found in gc.get_objects()))
gc.freeze()
gc.unfreeze()
print(gc.collect() >= 0)
