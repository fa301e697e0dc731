#!/usr/bin/env python2
print("run")
