import csv
import json

scores = [int(row["score"]) for row in csv.DictReader(open("scores.csv"))]
with open("average.json", "w") as result:
    json.dump({"average": sum(scores) / len(scores)}, result)
