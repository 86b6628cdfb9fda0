"""Codes of TensorRT: what it needs, its plans and how they are built, and how versions come and go by themselves."""

from __future__ import annotations

from typing import Dict

from edge_agent.domain.texts import Code, code

ENGINES: Dict[str, Code] = {
    "engine.unavailable": code(
        "TensorRT cannot be used here, so ONNX Runtime serves the model: {text}",
        "此处无法使用 TensorRT，改由 ONNX Runtime 提供服务：{text}",
        "Mend what it says, then load the model again; without a GPU take [build] out of the model's config.toml.",
        "请解决上述问题后重新加载模型；如果没有 GPU，请从模型的 config.toml 中删除 [build]。",
    ),
    "engine.building": code(
        "The TensorRT plan is being made; ONNX Runtime serves the model meanwhile, slower.",
        "正在生成 TensorRT 计划；在此期间由 ONNX Runtime 提供服务，速度较慢。",
        "Wait: `edge-agent models show NAME` tells how far it is.",
        "请等待；`edge-agent models show 名称` 可查看进度。",
    ),
    "engine.build_failed": code(
        "No TensorRT plan could be built, so ONNX Runtime serves the model: {text}",
        "无法构建 TensorRT 计划，改由 ONNX Runtime 提供服务：{text}",
        "Correct what it says, then `edge-agent models build NAME`.",
        "请按说明修正，然后运行 `edge-agent models build 名称`。",
    ),
    "engine.verify_failed": code(
        "The TensorRT plan was not taken, as it failed its check; ONNX Runtime serves the model: {text}",
        "TensorRT 计划未通过校验，未被采用，改由 ONNX Runtime 提供服务：{text}",
        "Try another precision in [build], or widen max_abs_error in [accept] where that is right.",
        "请在 [build] 中更换精度；如果误差可以接受，请放宽 [accept] 中的 max_abs_error。",
    ),
    "engine.golden_unreadable": code(
        "The golden inputs and outputs in [accept] say nothing of the plan: {text}",
        "[accept] 中的 golden 输入输出无法用于校验计划：{text}",
        "Correct the files that it names, then load the model again.",
        "请修正所指出的文件，然后重新加载模型。",
    ),
    "engine.plan_refused": code(
        "A TensorRT plan could not be loaded and was put aside: {text}",
        "TensorRT 计划无法加载，已被搁置：{text}",
        "Nothing: another one is built.",
        "无需操作：系统会重新构建。",
    ),
    "engine.precision_fell": code(
        "The plan was built as {precision}, as {wanted} could not be had: {text}",
        "无法使用 {wanted}，计划已按 {precision} 构建：{text}",
        "Set precision in [build] to what the board can do, or precision_fallback to false.",
        "请将 [build] 中的 precision 设为设备支持的精度，或将 precision_fallback 设为 false。",
    ),
    "engine.unverified": code(
        "The TensorRT plan serves without having been compared with anything: {text}",
        "TensorRT 计划在未经比对的情况下提供服务：{text}",
        "Install onnxruntime for the agent's Python, or give golden inputs and outputs in [accept].",
        "请为代理程序的 Python 安装 onnxruntime，或在 [accept] 中提供 golden 输入和输出。",
    ),
    "engine.broken": code(
        "The GPU engine failed in a way that only a new process mends; its host is being started again.",
        "GPU 引擎出现只有重启进程才能恢复的故障，推理进程正在重新启动。",
        "If it happens again and again, see the log: a plan, a driver or the memory is at fault.",
        "如果反复发生，请查看日志：可能是计划、驱动或内存的问题。",
    ),
    "engine.out_of_memory": code(
        "The GPU has no memory for this: {text}",
        "GPU 内存不足：{text}",
        "Send smaller batches, load fewer models, or build with a smaller max_batch_size.",
        "请减小批量、减少加载的模型，或以更小的 max_batch_size 构建。",
    ),
    "engine.built": code(
        "The TensorRT plan was built, checked and serves now.",
        "TensorRT 计划已构建、校验并投入使用。",
    ),
    "engine_host.memory": code(
        "The engine host took more memory than memory_max_bytes: {text}",
        "推理进程占用的内存超过 memory_max_bytes：{text}",
        "Raise memory_max_bytes of its host, or load fewer models into it.",
        "请提高该推理进程的 memory_max_bytes，或减少其中加载的模型。",
    ),
    "engine.no_library": code(
        "TensorRT is not there for the interpreter of the GPU host: {text}",
        "GPU 推理进程的解释器中没有 TensorRT：{text}",
        "Set [hosts.gpu] python to the interpreter that can import tensorrt (on a Jetson: /usr/bin/python3).",
        "请将 [hosts.gpu] python 设为能够导入 tensorrt 的解释器（Jetson 上为 /usr/bin/python3）。",
    ),
    "engine.no_driver": code(
        "There is no CUDA driver: {text}",
        "没有 CUDA 驱动：{text}",
        "On a Jetson install nvidia-l4t-cuda; in a container use the NVIDIA runtime.",
        "在 Jetson 上请安装 nvidia-l4t-cuda；在容器中请使用 NVIDIA 运行时。",
    ),
    "engine.no_device": code(
        "The CUDA driver shows no GPU: {text}",
        "CUDA 驱动未找到 GPU：{text}",
        "Check that the agent's user is in the groups video and render, and that the device nodes are there.",
        "请检查代理程序用户是否属于 video 和 render 组，以及设备节点是否存在。",
    ),
    "engine.no_pycuda": code(
        "PyCUDA is not there for the interpreter of the GPU host: {text}",
        "GPU 推理进程的解释器中没有 PyCUDA：{text}",
        "Install pycuda for the interpreter in [hosts.gpu] python.",
        "请为 [hosts.gpu] python 所指的解释器安装 pycuda。",
    ),
    "plan.foreign": code(
        "The plan was not made for this TensorRT and this GPU: {text}",
        "该计划不适用于此 TensorRT 版本和此 GPU：{text}",
        "Put model.onnx beside it, so that the agent builds one here; or build it on such a board with the same TensorRT.",
        "请在旁边放置 model.onnx，由代理程序在本机构建；或在相同 TensorRT 版本的同型设备上构建。",
    ),
    "plan.changed": code(
        "The plan's file is not the one that was checked; it was not loaded.",
        "计划文件不是已校验的那一个，因此未加载。",
        "Find out who writes there. With model.onnx beside it nothing else is to be done: ONNX Runtime serves and another plan "
        "is built. A plan alone is served again after `edge-agent models load NAME`, if the file is the one that you mean.",
        "请查明是谁改动了文件。旁边有 model.onnx 时无需其他处理：由 ONNX Runtime 提供服务，并会重新构建计划。"
        "若只有计划文件，请确认该文件无误，再执行 `edge-agent models load NAME` 恢复服务。",
    ),
    "plan.untrusted": code(
        "A plan without its ONNX model is not loaded, as models.trust_plans is none.",
        "由于 models.trust_plans 为 none，不会加载没有 ONNX 模型的计划。",
        "Put model.onnx beside it, or set models.trust_plans to alone where you trust who wrote the plan.",
        "请在旁边放置 model.onnx；如果信任该计划的来源，请将 models.trust_plans 设为 alone。",
    ),
    "model.shadowing": code(
        "The new version gets a copy of the traffic and is compared with the one that serves.",
        "新版本正在接收流量副本，并与当前服务的版本进行比较。",
    ),
    "model.shadow_waits": code(
        "The new version is not compared with the one that serves yet: {text}",
        "尚未开始将新版本与当前服务的版本进行比较：{text}",
        "Mend what it says, or promote the version unseen: edge-agent models promote NAME.",
        "请解决上述问题，或直接提升该版本：edge-agent models promote 名称。",
    ),
    "model.promoted": code("The new version serves now.", "新版本已投入使用。"),
    "model.promotions_lost": code(
        "Which versions were promoted or refused could not be read or kept.",
        "无法读取或保存哪些版本已被提升或拒绝。",
        "See that the state folder's disk can be written and has room, then look at the versions: edge-agent models list.",
        "请确认状态目录所在磁盘可写且空间充足，然后查看各版本：edge-agent models list。",
    ),
    "model.unjudged": code(
        "A version serves that was not compared to the end: {text}",
        "当前服务的版本未完成比较：{text}",
        "Bring the version before it back, or promote this one: edge-agent models promote NAME --version N.",
        "请恢复之前的版本，或提升该版本：edge-agent models promote 名称 --version N。",
    ),
    "model.rolled_back": code(
        "The version before it serves again: {text}",
        "已恢复上一个版本：{text}",
        "Correct the newer version and install it again, or promote it: edge-agent models promote NAME.",
        "请修正新版本后重新安装，或将其提升：edge-agent models promote 名称。",
    ),
    "model.shadow_rejected": code(
        "The new version was not taken: {text}",
        "新版本未被采用：{text}",
        "Correct the version and install it again, or promote it: edge-agent models promote NAME.",
        "请修正该版本后重新安装，或将其提升：edge-agent models promote 名称。",
    ),
}
