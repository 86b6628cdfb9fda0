"""A camera that speaks RTSP: `/usr/bin/python3 rtsp_server.py CLIP PORT [USER PASSWORD]`.

Needs the distribution's GStreamer with its RTSP server library (gir1.2-gst-rtsp-server-1.0, gstreamer1.0-plugins-*).
Serves rtsp://127.0.0.1:PORT/stream: the clip's H.264 as it is, over and over. Prints `ready PORT`. Ends after five minutes.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

FPS = 10
CAPS = "video/x-h264,stream-format=byte-stream,alignment=au"
READ = "filesrc location=%s ! qtdemux ! h264parse config-interval=-1 ! " + CAPS + " ! appsink name=out sync=false"
SEND = (
    "( appsrc name=src is-live=true format=time do-timestamp=true caps=" + CAPS + " ! h264parse config-interval=-1"
    " ! rtph264pay name=pay0 pt=96 config-interval=1 )"
)


def access_units(path):
    """The clip's frames as they are coded."""
    pipeline = Gst.parse_launch(READ % path)
    pipeline.set_state(Gst.State.PLAYING)
    units = []
    out = pipeline.get_by_name("out")
    while True:
        sample = out.emit("pull-sample")
        if sample is None:
            break
        buffer = sample.get_buffer()
        units.append(buffer.extract_dup(0, buffer.get_size()))
    pipeline.set_state(Gst.State.NULL)
    return units


class Camera(GstRtspServer.RTSPMediaFactory):
    """One shared stream for whoever asks."""

    def __init__(self, units):
        GstRtspServer.RTSPMediaFactory.__init__(self)
        self.units = units
        self.set_shared(True)

    def do_create_element(self, url):
        """The pipeline of a client's media."""
        return Gst.parse_launch(SEND)

    def do_configure(self, media):
        """Feeds it from now on."""
        source = media.get_element().get_by_name_recurse_up("src")
        state = {"next": 0}

        def push():
            unit = self.units[state["next"] % len(self.units)]
            state["next"] += 1
            return source.emit("push-buffer", Gst.Buffer.new_wrapped(unit)) == Gst.FlowReturn.OK

        GLib.timeout_add(1000 // FPS, push)


def protect(server, factory, user, password):
    """Basic authentication for the one user."""
    auth = GstRtspServer.RTSPAuth()
    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "viewer")
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
    server.set_auth(auth)
    permissions = GstRtspServer.RTSPPermissions()
    permissions.add_permission_for_role("viewer", "media.factory.access", True)
    permissions.add_permission_for_role("viewer", "media.factory.construct", True)
    factory.set_permissions(permissions)


def main(clip, port, user="", password=""):
    """Serves until killed."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory = Camera(access_units(clip))
    if user:
        protect(server, factory, user, password)
    server.get_mount_points().add_factory("/stream", factory)
    server.attach(None)
    print("ready", server.get_bound_port(), flush=True)  # noqa: T201
    loop = GLib.MainLoop()
    GLib.timeout_add_seconds(300, loop.quit)
    loop.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
