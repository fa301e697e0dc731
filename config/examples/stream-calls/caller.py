import os

from immure import Immure

PROGRAM = """
for city in ["Oslo", "Cairo"]:
    print(city, call_tool("temperature", {"city": city}))
"""


def temperature(city):
    return {"Oslo": -3, "Cairo": 24}[city]


with Immure(os.environ["IMMURE_URL"], os.environ["IMMURE_KEY"]) as client:
    reply = client.execute(PROGRAM, tools={"temperature": temperature})
print(reply["status"])
print(reply["stdout"], end="")
