"""Codes of what comes in: cameras, pictures, MQTT."""

from __future__ import annotations

from typing import Dict

from edge_agent.domain.texts import Code, code

SOURCES: Dict[str, Code] = {
    "camera.opening": code("The camera is being opened.", "正在打开摄像机。"),
    "camera.unreachable": code(
        "The camera does not answer at {source}.",
        "摄像机 {source} 没有响应。",
        "Check its power, its cable and its address.",
        "请检查电源、网线和地址。",
    ),
    "camera.stalled": code(
        "The camera sends no pictures any more; it is being opened again.",
        "摄像机不再送出画面，正在重新打开。",
        "If it happens often: check the network between the camera and this machine.",
        "如果经常发生，请检查摄像机与本机之间的网络。",
    ),
    "camera.frozen": code(
        "The camera sends the same picture again and again; it is being opened again.",
        "摄像机一直重复同一个画面，正在重新打开。",
        "Restart the camera. Where the scene truly never changes, set frozen_after_s = 0 for it.",
        "请重启摄像机。如果场景确实不变，请将该摄像机的 frozen_after_s 设为 0。",
    ),
    "camera.wrong_password": code(
        "The camera refuses the user name or the password.",
        "摄像机拒绝了用户名或密码。",
        "Write the right password into the camera's password_file; it is read again when it changes.",
        "请将正确的密码写入该摄像机的 password_file，文件更改后会自动重新读取。",
    ),
    "camera.child_died": code(
        "The process that reads the camera ended; it is being started again.",
        "读取摄像机的进程已退出，正在重新启动。",
        "If it happens often, another stream type of the camera (H.264 in place of H.265) may help.",
        "如果经常发生，可尝试换用摄像机的其他码流（例如用 H.264 代替 H.265）。",
    ),
    "camera.ended": code(
        "The video has come to its end.",
        "视频已播放完毕。",
        "Set loop = true to play a file again and again.",
        "如需循环播放文件，请设置 loop = true。",
    ),
    "camera.unsupported": code(
        "This version cannot read this kind of source: {source}.",
        "此版本无法读取这种视频源：{source}。",
        "Use rtsp://, http:// (MJPEG), a video file or /dev/videoN.",
        "请使用 rtsp://、http://（MJPEG）、视频文件或 /dev/videoN。",
    ),
    "camera.no_model": code(
        "The camera works, but its model is not ready.",
        "摄像机正常，但其模型尚未就绪。",
        "See the model's own state for the cause.",
        "原因请查看该模型的状态。",
    ),
    "camera.no_frame": code("The camera has no new picture yet.", "摄像机暂无新画面。"),
    "camera.frame_gone": code("That picture is not kept any more.", "该画面已不再保留。"),
    "camera.down": code(
        "The camera gives no pictures.", "摄像机没有画面。", "See the camera's state.", "请查看该摄像机的状态。"
    ),
    "camera.up": code("The camera gives pictures.", "摄像机画面正常。"),
    "image.empty": code(
        "The picture has no bytes.",
        "图片内容为空。",
        "Send the bytes of the file as the body.",
        "请将图片文件的内容作为请求正文发送。",
    ),
    "image.not_a_picture": code(
        "These bytes are not a picture that can be read.",
        "这些数据不是可读取的图片。",
        "Send a JPEG, PNG or WebP file.",
        "请发送 JPEG、PNG 或 WebP 文件。",
    ),
    "image.truncated": code(
        "The picture ends too early: a part of the file is missing.",
        "图片不完整：文件缺少一部分。",
        "Send the whole file again.",
        "请重新发送完整的文件。",
    ),
    "image.too_large": code(
        "The picture has more pixels than are accepted.",
        "图片像素数超过上限。",
        "Make it smaller before sending it.",
        "请在发送前缩小图片。",
    ),
    "image.no_room": code("The encoded picture does not fit its place.", "编码后的图片放不下。"),
    "mqtt.connecting": code("Connecting to the MQTT broker.", "正在连接 MQTT 代理。"),
    "mqtt.unreachable": code(
        "The MQTT broker cannot be reached at {host}:{port}.",
        "无法连接 MQTT 代理 {host}:{port}。",
        "Check that the broker runs, and the network to it; the agent goes on trying.",
        "请检查代理是否运行以及网络是否通畅；代理程序会持续重试。",
    ),
    "mqtt.not_authorized": code(
        "The MQTT broker refuses the user name, the password or the client id.",
        "MQTT 代理拒绝了用户名、密码或客户端标识。",
        "Check username and password_file in [mqtt], and what the broker allows this client.",
        "请检查 [mqtt] 中的 username 和 password_file，以及代理对该客户端的权限设置。",
    ),
    "mqtt.tls_failed": code(
        "The encrypted connection to the MQTT broker fails: {error}",
        "与 MQTT 代理的加密连接失败：{error}",
        "Check ca_file in [mqtt], the broker's certificate and its name, and this machine's clock.",
        "请检查 [mqtt] 中的 ca_file、代理证书及其名称，以及本机时钟。",
    ),
    "mqtt.refused": code(
        "The MQTT broker refuses: {error}",
        "MQTT 代理拒绝：{error}",
        "See the broker's log and what it allows this client.",
        "请查看代理的日志及其对该客户端的权限设置。",
    ),
    "mqtt.subscribe_refused": code(
        "The MQTT broker refuses the subscription to {topic}.",
        "MQTT 代理拒绝订阅主题 {topic}。",
        "Allow this client to read that topic at the broker.",
        "请在代理上允许该客户端读取此主题。",
    ),
    "mqtt.client_id_taken": code(
        "Another client uses the same MQTT client id: the two throw each other out.",
        "另一个客户端使用了相同的 MQTT 客户端标识，两者互相挤掉对方。",
        "Give each device its own client_id in [mqtt].",
        "请为每台设备在 [mqtt] 中设置不同的 client_id。",
    ),
    "mqtt.up": code("Connected to the MQTT broker.", "已连接 MQTT 代理。"),
    "mqtt.down": code(
        "The connection to the MQTT broker is lost; the agent goes on trying.",
        "与 MQTT 代理的连接已断开，正在持续重试。",
        "See the state of MQTT for the cause.",
        "原因请查看 MQTT 的状态。",
    ),
    "mqtt.failed": code(
        "A part of MQTT met an error of the agent's own; the agent connects again.",
        "MQTT 部分出现程序内部错误，正在重新连接。",
        "See the log; please report it.",
        "请查看日志并反馈此问题。",
    ),
    "mqtt.retained_request": code(
        "A retained message lies on a request topic; it is never answered.",
        "请求主题上存在保留消息，不会对其应答。",
        "Send requests without the retain flag, and clear this one with an empty retained message.",
        "请发送不带保留标志的请求，并用一条空的保留消息清除它。",
    ),
}
