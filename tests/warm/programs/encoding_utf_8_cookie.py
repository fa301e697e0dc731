# -*- coding: utf-8 -*-
print("é", "日本")
