import sys
sys.stdout = None
print("nowhere")
sys.stderr = None
raise ValueError("nobody sees")
