#!/usr/bin/env python3
"""An admission webhook that gives TrainJobs the GPUs and the layout of a plan.

    webhook.py CERTIFICATE KEY [PORT]

What `oppa plan --trainjob` refuses is admitted as it is, with the reason as a warning for the user.
"""

import base64
import http.server
import json
import ssl
import subprocess
import sys


def review(request):
    """The response to the request of an AdmissionReview."""
    job = request["object"]
    answer = {"uid": request["uid"], "allowed": True}
    made = subprocess.run(["oppa", "plan", "--trainjob", "-"], input=json.dumps(job), text=True, capture_output=True)
    if made.returncode != 0:
        return answer | {"warnings": [made.stderr.strip()[:256]]}
    planned = json.loads(made.stdout)
    patch = [{"op": "replace", "path": f"/{key}", "value": planned[key]} for key in ("spec", "metadata")]
    return answer | {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps({key: body[key] for key in ("apiVersion", "kind")} | {"response": review(body["request"])})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("", int(sys.argv[3]) if len(sys.argv) > 3 else 8443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
