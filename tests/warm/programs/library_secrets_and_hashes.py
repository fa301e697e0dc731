import hashlib
import hmac
import secrets
import ssl
print(len(secrets.token_hex(8)), hashlib.sha256(b"x").hexdigest(), hmac.new(b"k", b"m", "sha1").hexdigest())
print(secrets.token_bytes(8) != secrets.token_bytes(8), ssl.RAND_bytes(8) != ssl.RAND_bytes(8), sorted(hashlib.algorithms_guaranteed)[:3])
