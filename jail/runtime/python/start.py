# What an interpreter runs to become a template (main.c goes on, and does not come back).
import _imp


class Spec:
    name, origin = "immure_template", "%s"


_imp.create_dynamic(Spec).serve()
