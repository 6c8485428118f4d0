# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stores what it is sent, each in a transaction of its own. SQLite appends it to a log, and copies it to the database once the log is long."""

import http.server
import sqlite3

photos = sqlite3.connect("photos.db", isolation_level=None)
photos.execute("PRAGMA journal_mode = WAL")
# Seldom, since it takes so long.
photos.execute("PRAGMA wal_autocheckpoint = 20000")
photos.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY, photo BLOB)")


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        photo = self.rfile.read(int(self.headers["Content-Length"]))
        photos.execute("INSERT INTO photos (photo) VALUES (?)", (photo,))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Service)
print(server.server_port, flush=True)
server.serve_forever()
