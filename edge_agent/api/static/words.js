// Everything the page says, English and Chinese beside each other, and how it writes numbers and times.

const WORDS = {
  language: ['中文', 'English'], // on the switch: the other one
  sign_in: ['Sign in', '登录'],
  sign_out: ['Sign out', '退出登录'],
  sign_in_title: ['Access token needed', '需要访问令牌'],
  sign_in_hint: [
    'The token is kept until this tab is closed. Make one on the device with `edge-agent token add NAME --role viewer`.',
    '令牌仅保留到关闭此标签页为止。可在设备上运行 `edge-agent token add 名称 --role viewer` 创建。',
  ],
  sign_in_refused: ['This token is not accepted.', '此令牌无效。'],
  token: ['Token', '令牌'],
  connecting: ['Asking the agent …', '正在连接代理程序…'],
  no_answer: ['The agent does not answer since {time}.', '代理程序自 {time} 起没有响应。'],
  no_answer_yet: ['The agent does not answer.', '代理程序没有响应。'],
  no_answer_age: ['For {age}. What you see is from before; the page goes on trying.', '已持续 {age}。以下内容为此前状态，页面会持续重试。'],
  no_answer_age_yet: ['For {age}. The page goes on trying.', '已持续 {age}，页面会持续重试。'],
  answers_error: ['The agent refuses to show its state ({status}): {text}', '代理程序拒绝提供状态（{status}）：{text}'],
  page_fault: ['This page cannot show what the agent sent: {text}', '页面无法显示代理程序返回的内容：{text}'],
  unknown_now: ['State unknown', '状态未知'],
  all_run: ['Everything runs', '一切正常'],
  one_failed: ['1 part does not work', '1 个部分发生故障'],
  some_failed: ['{n} parts do not work', '{n} 个部分发生故障'],
  one_degraded: ['1 part is impaired', '1 个部分受影响'],
  some_degraded: ['{n} parts are impaired', '{n} 个部分受影响'],
  both: ['{failed}, {degraded}', '{failed}，{degraded}'],
  agent_degraded: ['Something is impaired', '运行受影响'],
  what_to_do: ['What to do:', '处理方法:'],
  since: ['since {time} ({age})', '自 {time} 起（{age}）'],
  ok: ['OK', '正常'],
  degraded: ['Impaired', '受影响'],
  failed: ['Failed', '故障'],
  off: ['Off', '未启用'],
  cameras: ['Cameras', '摄像机'],
  models: ['Models', '模型'],
  parts: ['Parts', '组成部分'],
  device: ['Device', '设备'],
  results: ['Latest results', '最新结果'],
  events: ['Latest events', '最新事件'],
  no_cameras: ['No cameras are configured.', '未配置摄像机。'],
  no_models: ['The model repository is empty.', '模型库为空。'],
  no_results: ['Nothing is stored yet.', '暂无结果。'],
  no_events: ['Nothing has happened yet.', '暂无事件。'],
  not_readable: ['Cannot be read now: {text}', '暂时无法读取：{text}'],
  one_camera: ['Camera', '摄像机'],
  one_model: ['Model', '模型'],
  one_engine_host: ['Engine host', '推理进程'],
  one_agent: ['Agent', '代理程序'],
  one_mqtt: ['MQTT', 'MQTT'],
  one_store: ['Store', '存储'],
  one_sync: ['Sync', '同步'],
  one_access: ['Access', '访问控制'],
  one_device: ['Device', '设备'],
  one_clock: ['Clock', '时钟'],
  one_uplink: ['Uplink', '上行链路'],
  fps_in: ['fps in', '输入帧率'],
  fps_inferred: ['fps inferred', '推理帧率'],
  frame_age: ['frame age', '画面时延'],
  no_picture: ['No picture yet', '暂无画面'],
  last_picture: ['Last picture {time}', '最后画面 {time}'],
  picture_of: ['Live picture of {name}', '{name} 的实时画面'],
  enlarge: ['Larger or smaller: {name}', '放大或缩小：{name}'],
  version: ['version {version}', '版本 {version}'],
  checked: ['checked', '已校验'],
  unchecked: ['not checked', '未校验'],
  build_queued: ['TensorRT plan waits', 'TensorRT 计划等待中'],
  build_building: ['TensorRT plan is being built', '正在构建 TensorRT 计划'],
  build_checking: ['TensorRT plan is being checked', '正在校验 TensorRT 计划'],
  left: ['about {age} left', '约剩 {age}'],
  try: ['try {n}', '第 {n} 次尝试'],
  compared: ['{n} of {total} requests compared', '已比较 {n} / {total} 个请求'],
  agree: ['{share} agree', '一致 {share}'],
  p95: ['95 of 100 within {time}, serving {other}', 'p95 {time}，当前版本 {other}'],
  some_errors: ['{n} failed', '{n} 个失败'],
  too_hot: ['pauses: too hot', '温度过高，已暂停'],
  paused: ['pauses', '已暂停'],
  no_version: ['no version', '无版本'],
  id: ['id {id}', '标识 {id}'],
  up: ['up {age}', '已运行 {age}'],
  pid: ['pid {pid}', 'PID {pid}'],
  restarts: ['{n} restarts', '重启 {n} 次'],
  restart: ['1 restart', '重启 1 次'],
  rows: ['{n} rows written', '已写入 {n} 行'],
  waiting: ['{n} waiting', '{n} 条等待'],
  dropped: ['{n} dropped', '{n} 条已丢弃'],
  answers: ['{n} answers', '{n} 条应答'],
  commit: ['last commit {ms} ms', '最近提交 {ms} 毫秒'],
  synced: ['synchronised', '已同步'],
  time: ['Time', '时间'],
  source: ['Source', '来源'],
  seen: ['Seen', '识别结果'],
  latency: ['Latency', '延迟'],
  nothing: ['nothing', '无'],
  more: ['+ {n} more', '另有 {n} 项'],
  clock_wrong: ['The clock was not set when this was stored.', '存储时系统时钟尚未同步。'],
  unknown: ['unknown', '未知'],
  board: ['Board', '设备型号'],
  temperature: ['Temperature', '温度'],
  cpu: ['CPU', 'CPU'],
  gpu: ['GPU', 'GPU'],
  memory: ['Memory', '内存'],
  disk: ['Disk', '磁盘'],
  power: ['Power', '功率'],
  fan: ['Fan', '风扇'],
  uptime: ['Uptime', '开机时间'],
  agent_memory: ['Agent’s memory', '代理程序内存'],
  tensors: ['Tensor memory', '张量内存'],
  loop_lag: ['Loop delay, p99', '循环延迟 p99'],
  used_of: ['{used} of {total}', '{used} / {total}'],
  free: ['{free} free of {total}', '可用 {free}，共 {total}'],
  zone: ['Times are local: {zone}.', '时间均为本地时间：{zone}。'],
};

let language = 0; // index into the pairs

/** 'en' or 'zh'. */
export function languageCode() {
  return language ? 'zh' : 'en';
}

export function setLanguage(code) {
  language = code === 'zh' ? 1 : 0;
  document.documentElement.lang = language ? 'zh-CN' : 'en';
}

export function knows(word) {
  return word in WORDS;
}

/** A text by its word, `{name}` filled from the values. */
export function say(word, values = {}) {
  return fill(WORDS[word][language], values);
}

/** `{name}` filled from the values; what is not given shows as a question mark. */
export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, name) => {
    const value = Object.prototype.hasOwnProperty.call(values, name) ? values[name] : null;
    return value === null || value === undefined ? '?' : clip(typeof value === 'object' ? JSON.stringify(value) : value, 600);
  });
}

export function clip(text, length) {
  const letters = Array.from(String(text));
  return letters.length > length ? letters.slice(0, length - 1).join('') + '…' : letters.join('');
}

/** Whether it is a number. */
export function has(value) {
  return Number.isFinite(value);
}

export function number(value, digits = 0) {
  if (!has(value)) return say('unknown');
  return value.toLocaleString(document.documentElement.lang, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function bytes(value) {
  if (!has(value)) return say('unknown');
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let step = 0;
  while (value >= 999.5 && step < units.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${number(value, step && value < 99.5 ? 1 : 0)} ${units[step]}`;
}

export function percent(share) {
  return has(share) ? `${number(share * 100)} %` : say('unknown');
}

/** Seconds in their largest unit; hours and days with the one below. */
export function duration(seconds) {
  if (!has(seconds)) return say('unknown');
  const names = language ? ['秒', '分钟', '小时', '天'] : ['s', 'min', 'h', 'd'];
  const sizes = [1, 60, 3600, 86400];
  const whole = Math.max(0, Math.floor(seconds));
  const top = Math.max(0, sizes.filter((size) => size <= whole).length - 1);
  const rest = top > 1 ? Math.floor((whole % sizes[top]) / sizes[top - 1]) : 0;
  return `${Math.floor(whole / sizes[top])} ${names[top]}${rest ? ` ${rest} ${names[top - 1]}` : ''}`;
}

/** Short ages keep a digit: 0.3 s. */
export function age(seconds) {
  if (!has(seconds) || seconds >= 9.95) return duration(seconds);
  return `${number(Math.max(0, seconds), 1)} ${language ? '秒' : 's'}`;
}

/** Time of day in the local zone, with the date when it is another day. `fine` adds tenths of a second. */
export function clockTime(moment, fine = false) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return say('unknown');
  const two = (value) => String(value).padStart(2, '0');
  let text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (fine) text += `.${Math.floor(date.getMilliseconds() / 100)}`;
  if (date.toDateString() === new Date().toDateString()) return text;
  const form = { day: 'numeric', month: 'short' };
  if (date.getFullYear() !== new Date().getFullYear()) form.year = 'numeric';
  return `${date.toLocaleDateString(document.documentElement.lang, form)} ${text}`;
}

export function fullTime(moment) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return '';
  return date.toLocaleString(document.documentElement.lang, { dateStyle: 'full', timeStyle: 'long' });
}
