# What an interpreter runs to become a template (main.c goes on, and does not come back). A function, because it takes fewer of the
# collector's objects than a class: a job's count begins where this one's ends.
import _imp

spec = lambda: None
spec.name, spec.origin = "immure_template", "%s"
_imp.create_dynamic(spec).serve()
