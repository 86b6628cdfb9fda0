"""Codes of builds: why no TensorRT plan came out."""

from __future__ import annotations

from typing import Dict

from edge_agent.domain.texts import Code, code

BUILDS: Dict[str, Code] = {
    "build.parse_failed": code(
        "TensorRT cannot read the ONNX model: {text}",
        "TensorRT 无法读取该 ONNX 模型：{text}",
        "Export it again, with an opset that this TensorRT knows (13 for 8.2, 17 for 8.5, 20 for 10).",
        "请用此 TensorRT 支持的 opset 重新导出（8.2 为 13，8.5 为 17，10 为 20）。",
    ),
    "build.unsupported_operator": code(
        "TensorRT lacks an operator of the model: {text}",
        "TensorRT 不支持模型中的算子：{text}",
        "Export the model without it, or leave it to ONNX Runtime: platform onnxruntime_onnx.",
        "请导出不含该算子的模型，或使用 ONNX Runtime：platform onnxruntime_onnx。",
    ),
    "build.no_profile": code(
        "Nobody says how large an input of the model may be: {text}",
        "未指定模型某个输入的大小范围：{text}",
        "Give its min, opt and max sizes in [[build.profiles]] of the model's config.toml.",
        "请在模型的 config.toml 中用 [[build.profiles]] 指定其 min、opt、max 大小。",
    ),
    "build.precision_unsupported": code(
        "The precision that [build] asks for is not to be had: {text}",
        "无法使用 [build] 所要求的精度：{text}",
        "Set precision in [build] to one that the board can do, or precision_fallback to true.",
        "请将 [build] 中的 precision 设为设备支持的精度，或将 precision_fallback 设为 true。",
    ),
    "build.out_of_memory": code(
        "There was not enough memory to build the plan: {text}",
        "内存不足，无法构建计划：{text}",
        "Lower workspace_mb in [build], stop the desktop, add swap on disk, or build at a quieter time.",
        "请降低 [build] 中的 workspace_mb、关闭桌面环境、增加磁盘交换空间，或在空闲时构建。",
    ),
    "build.killed": code(
        "The builder ended before its work was done: {text}",
        "构建进程在完成前退出：{text}",
        "It is tried again by itself; if it stays so, see the log.",
        "系统会自动重试；如果持续如此，请查看日志。",
    ),
    "build.timeout": code(
        "The build took longer than timeout_s: {text}",
        "构建超过了 timeout_s：{text}",
        "Raise timeout_s in the model's [build], or lower optimization_level.",
        "请提高模型 [build] 中的 timeout_s，或降低 optimization_level。",
    ),
    "build.failed": code(
        "TensorRT made no plan: {text}",
        "TensorRT 未能生成计划：{text}",
        "See the log for what TensorRT said.",
        "请查看日志中 TensorRT 的说明。",
    ),
    "build.not_kept": code(
        "The plan cannot be kept: {text}",
        "无法保存计划：{text}",
        "Make the folder plans in agent.state_dir one that the agent can write to.",
        "请确保代理程序可以写入 agent.state_dir 下的 plans 目录。",
    ),
    "build.no_space": code(
        "The disk has no room for the plan: {text}",
        "磁盘空间不足，无法存放计划：{text}",
        "Free some space, or lower models.plans_max_bytes.",
        "请释放磁盘空间，或降低 models.plans_max_bytes。",
    ),
}
