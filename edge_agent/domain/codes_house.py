"""Codes of the agent itself: store, configuration, access, ports, clock, its life."""

from __future__ import annotations

from typing import Dict

from edge_agent.domain.texts import Code, code

HOUSE: Dict[str, Code] = {
    "agent.starting": code("The agent is starting.", "代理程序正在启动。"),
    "agent.started": code("The agent started.", "代理程序已启动。"),
    "agent.started_after_crash": code(
        "The agent started; its last run was ended before it could close.",
        "代理程序已启动；上次运行未正常结束。",
        "The log holds what led to it: `edge-agent logs --since 1h`.",
        "日志中记录了原因：`edge-agent logs --since 1h`。",
    ),
    "agent.started_after_power_cut": code(
        "The agent started; the machine went down without being shut down.",
        "代理程序已启动；上次机器未正常关机（断电）。",
        "Check the power supply; acknowledged results are safe.",
        "请检查供电；已确认的结果不会丢失。",
    ),
    "agent.stopping": code("The agent is stopping.", "代理程序正在停止。"),
    "agent.draining": code(
        "The agent finishes what it has begun and takes nothing new.", "代理程序正在完成已接收的任务，不再接收新任务。"
    ),
    "agent.error": code("Something went wrong in the agent.", "代理程序内部出错。", "See the log.", "请查看日志。"),
    "agent.task_failed": code(
        "A part of the agent ended unasked; it is being started again.",
        "代理程序的一个部分意外结束，正在重新启动。",
        "See the log; please report it.",
        "请查看日志并反馈此问题。",
    ),
    "store.ok": code("Results are being stored again.", "结果存储已恢复。"),
    "store.failed": code(
        "The database cannot be written: {text}",
        "无法写入数据库：{text}",
        "Check the disk and the rights on the state directory.",
        "请检查磁盘以及状态目录的权限。",
    ),
    "store.full": code(
        "The disk is full: results cannot be stored. Inference goes on.",
        "磁盘已满：结果无法存储，推理继续进行。",
        'Make room on the disk: delete other files, or set keep = "none" for cameras whose results nobody needs.',
        '请清理磁盘：删除其他文件，或对不需要保存结果的摄像机设置 keep = "none"。',
    ),
    "store.damaged": code(
        "The database was damaged; it was set aside and a new one begun.",
        "数据库已损坏，已另存并新建。",
        "Check the disk or the card; it may be worn out.",
        "请检查磁盘或存储卡，可能已老化。",
    ),
    "store.behind": code(
        "The disk is slow: {queued} rows wait to be written.",
        "磁盘较慢：有 {queued} 行等待写入。",
        "Check the disk or the card; it may be worn out.",
        "请检查磁盘或存储卡，可能已老化。",
    ),
    "config.rejected": code(
        "The configuration has faults: {text}",
        "配置有误：{text}",
        "Correct the file; `edge-agent check` lists every fault.",
        "请修正配置文件；运行 `edge-agent check` 可列出所有错误。",
    ),
    "config.safe_mode": code(
        "The configuration has faults: the agent runs with the last good one.",
        "配置有误：代理程序正使用上一份有效配置运行。",
        "Correct the file and restart; `edge-agent check` lists every fault.",
        "请修正配置文件并重启；运行 `edge-agent check` 可列出所有错误。",
    ),
    "access.denied": code(
        "Access was denied.",
        "访问被拒绝。",
        "Use a token whose role allows this; `edge-agent token list` shows them.",
        "请使用具有相应角色的令牌；运行 `edge-agent token list` 查看。",
    ),
    "access.tokens_damaged": code(
        "The token file {path} is damaged. Until it is repaired only this machine is served, and nobody without a token.",
        "令牌文件 {path} 已损坏。修复之前只为本机提供服务，且没有令牌一律拒绝。",
        "Restore it from a copy, or remove it and make new tokens (edge-agent token add NAME --role admin); restart the agent.",
        "请从备份恢复该文件，或删除它并新建令牌：edge-agent token add 名称 --role admin，然后重启代理程序。",
    ),
    "access.no_tokens": code(
        "There are no access tokens any more: only this machine itself is served.",
        "访问令牌已丢失：仅本机可访问。",
        "Make one with `edge-agent token add NAME --role admin`.",
        "请运行 `edge-agent token add 名称 --role admin` 创建令牌。",
    ),
    "access.tokens_unwritable": code(
        "When tokens were last used cannot be written down.",
        "无法记录令牌的最近使用时间。",
        "Check the disk and the rights on the state directory.",
        "请检查磁盘以及状态目录的权限。",
    ),
    "http.failed": code(
        "A request failed for a reason that nobody foresaw.",
        "请求因未预料的原因失败。",
        "See the log; please report it.",
        "请查看日志并反馈此问题。",
    ),
    "http.port_taken": code(
        "The HTTP port {port} is used by another program.",
        "HTTP 端口 {port} 已被其他程序占用。",
        "End that program, or choose another port in [http].",
        "请结束该程序，或在 [http] 中更换端口。",
    ),
    "metrics.port_taken": code(
        "The metrics port {port} is used by another program; /metrics on the HTTP port works.",
        "指标端口 {port} 已被其他程序占用；HTTP 端口上的 /metrics 可用。",
        "End that program, or choose another port in [metrics].",
        "请结束该程序，或在 [metrics] 中更换端口。",
    ),
    "clock.jump": code(
        "The wall clock jumped by {seconds} s.",
        "系统时钟跳变了 {seconds} 秒。",
        "Nothing to do after a start; if it repeats, check the time service.",
        "启动后出现属正常；如果反复发生，请检查时间同步服务。",
    ),
    "agent.not_running": code(
        "No agent answers there.",
        "没有代理程序在那里响应。",
        "Start it (systemctl start edge-agent, or edge-agent run), or check --url.",
        "请启动代理程序（systemctl start edge-agent 或 edge-agent run），或检查 --url。",
    ),
    "agent.refused": code("The agent refused.", "代理程序拒绝了该请求。"),
    "clock.synced": code("The wall clock is right again.", "系统时钟已同步。"),
    "clock.unsynced": code(
        "The wall clock has not been set: times of rows are corrected when it is.",
        "系统时钟尚未同步：同步后会更正记录的时间。",
        "Let the machine reach a time server, or give it a clock with a battery.",
        "请让机器连接时间服务器，或加装带电池的时钟。",
    ),
    "device.unknown": code("The board gives no such values.", "此设备不提供这些数值。"),
    "data.erased": code("Results of a range were erased for good.", "某一范围的结果已被永久删除。"),
}
