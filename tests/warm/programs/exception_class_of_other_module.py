import json
json.loads("{broken")
