import sqlite3
with sqlite3.connect(":memory:") as database:
    database.execute("create table t (a integer, b text)")
    database.executemany("insert into t values (?, ?)", [(1, "x"), (2, None)])
    database.create_function("twice", 1, lambda n: n * 2)
    print(database.execute("select twice(a), b from t order by a desc").fetchall())
connection = sqlite3.connect("file.db")
connection.execute("create table u (v)")
connection.commit()
sqlite3.connect("file.db").execute("select * from missing")
