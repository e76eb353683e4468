// Draws the charts of a report, and fills the tables with their numbers. What is shown was decided by the program that wrote
// the page; the data are in the element `data`, in the shape of `model.rs`.
'use strict';
(() => {
  const { charts, shared } = JSON.parse(document.getElementById('data').textContent);
  const PHONE = 600;
  const BARS_MAX = 300;
  const SYNCED = 'seconds';
  const RUN_DASHES = [undefined, [7, 4]];
  const PHASES = [
    ['open', '--open', 'opened', 'sealed'],
    ['waiting for a batch-processor', '--waiting', 'sealed', 'leased'],
    ['at work', '--working', 'leased', 'delivered'],
  ];
  const FLUSHES = [
    ['full', 'full', '--c0'],
    ['drained', 'drained', '--c1'],
    ['window', 'window ended', '--c2'],
    [null, 'not known', '--c5'],
  ];

  // ---- Numbers as texts ----

  const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
  const precise = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
  const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
  const fixed = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

  const large = value => Math.abs(value) >= 100 ? whole.format(value) : precise.format(value);
  // Minutes are written as in the text of the page.
  const minutes = secs => {
    const rounded = Math.round(secs);
    return `${Math.floor(rounded / 60)} min ${String(rounded % 60).padStart(2, '0')} s`;
  };
  const duration = secs => secs >= 99.95 ? minutes(secs) : secs > 0 && secs < 0.9995 ? `${large(secs * 1e3)} ms` : `${large(secs)} s`;
  const at = secs => secs == null ? '–' : secs >= 99.95 ? minutes(secs) : `${fixed.format(secs)} s`;
  const FORMS = {
    messages: value => whole.format(value),
    messages_a_second: value => large(value),
    secs: duration,
    environments: value => whole.format(value),
    count: value => whole.format(value),
  };
  const written = (form, value) => value == null ? '–' : form(value);
  const ofRun = (label, name) => label ? `${label}: ${name}` : name;

  // ---- Elements ----

  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text != null) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // Returns a table. `columns` are [name, is a number]; `rows` are texts, the first of which names its row.
  const table = (caption, columns, rows) => {
    const element = make('table');
    element.append(make('caption', caption));
    const head = make('tr');
    for (const [name, number] of columns) head.append(make('th', name, { scope: 'col', ...(number && { class: 'number' }) }));
    const thead = make('thead');
    thead.append(head);
    const tbody = make('tbody');
    for (const row of rows) {
      const tr = make('tr');
      row.forEach((text, column) => {
        const attributes = columns[column][1] ? { class: 'number' } : {};
        tr.append(column === 0 ? make('th', text, { scope: 'row', ...attributes }) : make('td', text, attributes));
      });
      tbody.append(tr);
    }
    element.append(thead, tbody);
    const scroll = make('div', null, { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption });
    scroll.append(element);
    return scroll;
  };

  // ---- Axes ----

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
  const axis = more => ({
    stroke: colour('--faint'),
    font,
    grid: { stroke: colour('--grid'), width: 1 },
    ticks: { stroke: colour('--grid'), width: 1, size: 5 },
    ...more,
  });
  // Ticks of an axis of time are at whole minutes if it is long.
  const TIMES = [...[-3, -2, -1].flatMap(zeros => [1, 2, 5].map(digit => digit * 10 ** zeros)),
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000];
  const tick = secs => secs >= 60 && secs % 60 === 0 ? `${whole.format(secs / 60)} min` : duration(secs);
  const ticks = (u, splits) => splits.map(secs => secs == null ? '' : tick(secs));
  const secsAxis = () => axis({ space: 66, size: 34, incrs: TIMES, values: ticks });
  const valueAxis = (form, more) => axis({ size: 58, space: 32, values: (u, splits) => splits.map(value => value == null ? '' : form(value)), ...more });
  const WHOLE = [1, 2, 5].flatMap(digit => [...Array(12).keys()].map(zeros => digit * 10 ** zeros)).sort((a, b) => a - b);
  const axisForm = unit => unit === 'secs' ? duration : value => Math.abs(value) >= 10000 ? short.format(value) : large(value);
  const fromZero = (u, min, max) => [0, max > 0 ? max * 1.06 : 1];

  // Every time axis ends where the report ends, unless the reader zoomed in.
  const timeScale = () => ({
    time: false,
    range: (u, min, max) => {
      const xs = u.data[0];
      const all = min == null || (min === xs[0] && max === xs[xs.length - 1]);
      return all ? [0, shared.end_secs || 1] : [min, max];
    },
  });

  // Zooming one chart over time zooms all of them.
  const overTime = [];
  const zoomAll = (u, scale) => {
    if (scale !== 'x') return;
    const { min, max } = u.scales.x;
    for (const other of overTime) {
      if (other !== u && (other.scales.x.min !== min || other.scales.x.max !== max)) other.setScale('x', { min, max });
    }
  };

  const timeCursor = () => ({
    sync: { key: SYNCED, setSeries: false, scales: ['x', null] },
    drag: { x: true, y: false },
    y: false,
  });

  const heightOf = host => host.clientWidth < PHONE ? 220 : 270;
  // Without a pointer over the chart, the legend shows the last values. Two runs have points at different times: `dataIdx` finds
  // the nearest point of each line.
  const showLast = u => {
    if (u.cursor.left >= 0) return;
    const last = u.data[0].length - 1;
    u.setLegend({ idxs: u.data.map((values, series) => u.cursor.dataIdx(u, series, last)) }, false);
  };
  const legend = () => ({ markers: { width: 2, dash: (u, series) => u.series[series].dash ? 'dashed' : 'solid' } });

  // ---- Charts. Each function returns the options and the data of uPlot, and may add elements. ----

  const lines = chart => {
    const form = FORMS[chart.unit];
    const tables = chart.runs.map(run => [run.at_secs, ...run.lines.map(line => line.values)]);
    const series = chart.runs.flatMap((run, index) => run.lines.map(line => ({
      label: ofRun(run.label, line.label),
      stroke: colour(`--c${line.colour}`),
      width: 2,
      dash: RUN_DASHES[run.label === 'B' ? 1 : 0],
      points: { show: run.at_secs.length < 3 },
      value: (u, value) => written(form, value),
    })));
    return {
      data: tables.length > 1 ? uPlot.join(tables) : tables[0],
      options: {
        scales: { x: timeScale(), y: { range: fromZero } },
        series: [{ label: 'at', value: (u, value) => at(value) }, ...series],
        axes: [secsAxis(), valueAxis(axisForm(chart.unit), chart.unit === 'secs' ? { incrs: TIMES, values: ticks, size: 74 } : { incrs: WHOLE })],
        cursor: timeCursor(),
        legend: legend(),
        hooks: { setScale: [zoomAll], ready: [showLast], setCursor: [showLast] },
      },
      overTime: true,
    };
  };

  const percentiles = chart => ({
    data: [chart.names.map((name, index) => index), ...chart.lines.map(line => line.secs)],
    options: {
      scales: {
        x: { time: false, range: () => [-0.25, chart.names.length - 0.75] },
        y: chart.logarithmic ? { distr: 3 } : { range: fromZero },
      },
      series: [
        { label: 'at', value: (u, value) => value == null ? '–' : chart.names[value] },
        ...chart.lines.map(line => ({
          label: line.label,
          stroke: colour(`--c${line.colour % 6}`),
          width: 2,
          dash: RUN_DASHES[line.run],
          points: { show: true, size: 7 },
          value: (u, value) => written(duration, value),
        })),
      ],
      axes: [
        axis({ size: 34, splits: () => chart.names.map((name, index) => index), values: () => chart.names }),
        valueAxis(duration, { size: 74 }),
      ],
      cursor: { y: false, drag: { x: false, y: false } },
      legend: legend(),
      hooks: { ready: [showLast], setCursor: [showLast] },
    },
  });

  const sizes = chart => {
    const batches = shared.batches[chart.run];
    const reasons = FLUSHES.filter(([reason]) => batches.flushed.includes(reason));
    return {
      data: [
        batches.events.map((events, index) => index + 1),
        ...reasons.map(([reason]) => batches.events.map((events, index) => batches.flushed[index] === reason ? events : null)),
      ],
      options: {
        scales: {
          x: { time: false, range: (u, min, max) => [Math.max(min, 1) - 0.5, max + 0.5] },
          y: { range: () => [0, chart.events_max * 1.06 || 1] },
        },
        series: [
          { label: 'batch', value: (u, value) => written(whole.format, value) },
          ...reasons.map(([, name, variable]) => ({
            label: name,
            stroke: colour(variable),
            fill: colour(variable),
            width: 0,
            // More bars than pixels would hide each other.
            ...(batches.events.length > BARS_MAX
              ? { paths: () => null, points: { show: true, size: 4, width: 0, fill: colour(variable) } }
              : { paths: uPlot.paths.bars({ size: [0.75, 44] }), points: { show: false } }),
            value: (u, value) => written(whole.format, value),
          })),
        ],
        axes: [
          axis({ size: 34, space: 60, incrs: WHOLE, values: (u, splits) => splits.map(value => whole.format(value)) }),
          valueAxis(axisForm('messages')),
        ],
        cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
        legend: { markers: { width: 0 } },
        hooks: { ready: [showLast], setCursor: [showLast] },
      },
    };
  };

  // The end of a phase that has not ended, or whose end is not known, is the start of the next one that is known.
  const phasesOf = (batches, batch) => {
    const known = ['opened', 'sealed', 'leased', 'delivered'].map(name => batches[name][batch]);
    return PHASES.map(([, variable], phase) => {
      const from = known[phase];
      const to = known.slice(phase + 1).find(time => time != null);
      return from == null ? null : { variable, from, to: to ?? shared.end_secs };
    }).filter(phase => phase);
  };

  const sentenceOf = (batches, batch) => {
    const key = batches.batch_key?.[batch];
    const flushed = FLUSHES.find(([reason]) => reason === batches.flushed[batch])[1];
    const invocations = batches.invocations?.[batch];
    const filled = invocations == null ? '' : ` filled by ${whole.format(invocations)} invocations;`;
    return `Batch ${whole.format(batch + 1)}, ${batches.batch_id[batch]}${key == null ? '' : `, key ${key}`}: `
      + `${whole.format(batches.events[batch])} events in ${whole.format(batches.parts[batch])} parts;${filled} closed: ${flushed}. `
      + `Opened ${at(batches.opened[batch])}, sealed ${at(batches.sealed[batch])}, leased ${at(batches.leased[batch])}, `
      + `delivered ${at(batches.delivered[batch])}.`;
  };

  // Writes the size of a batch beside its line: behind it if there is room, else before it, else not.
  const writeSize = (u, text, from, to, y) => {
    const { left, width } = u.bbox;
    const gap = 5 * devicePixelRatio;
    const needed = u.ctx.measureText(text).width + 2 * gap;
    const x = to + needed <= left + width ? to + gap : from - needed >= left ? from - needed + gap : null;
    if (x != null) u.ctx.fillText(text, x, y);
  };

  const drawBatches = batches => u => {
    const { ctx } = u;
    const lane = u.bbox.height / batches.events.length;
    const height = Math.max(1, lane * (lane > 6 * devicePixelRatio ? 0.7 : 1));
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    const colours = Object.fromEntries(PHASES.map(([, variable]) => [variable, colour(variable)]));
    const ink = colour('--ink');
    ctx.font = `${12 * devicePixelRatio}px ${font.slice(5)}`;
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'left';
    for (let batch = 0; batch < batches.events.length; batch++) {
      const middle = u.bbox.top + (batch + 0.5) * lane;
      let first = null;
      let last = null;
      for (const { variable, from, to } of phasesOf(batches, batch)) {
        const [x0, x1] = [from, to].map(secs => Math.round(u.valToPos(secs, 'x', true)));
        ctx.fillStyle = colours[variable];
        // On whole pixels: many thin lines would otherwise mix to one colour.
        ctx.fillRect(x0, Math.round(middle - height / 2), Math.max(1, x1 - x0), Math.max(1, Math.round(height)));
        first ??= x0;
        last = Math.max(last ?? x1, x1);
      }
      if (lane >= 14 * devicePixelRatio && first != null) {
        ctx.fillStyle = ink;
        const reason = u.width < PHONE || !batches.flushed[batch] ? '' : ` ${batches.flushed[batch]}`;
        writeSize(u, whole.format(batches.events[batch]) + reason, first, last, middle);
      }
    }
    ctx.restore();
  };

  const timeLine = (chart, host) => {
    const batches = shared.batches[chart.run];
    const count = batches.events.length;
    const key = make('ul', null, { class: 'key' });
    for (const [name, variable] of PHASES) {
      const item = make('li');
      const swatch = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      swatch.style.background = colour(variable);
      item.append(swatch, name);
      key.append(item);
    }
    const readout = make('p', 'Point at a batch to read its times.', { class: 'readout' });
    const height = Math.min(Math.max(count * 20, 120), host.clientWidth < PHONE ? 380 : 460) + 44;
    return {
      data: [[0, shared.end_secs || 1], [null, null]],
      height,
      before: key,
      after: readout,
      options: {
        scales: { x: timeScale(), y: { range: () => [0, count], dir: -1 } },
        series: [{}, { points: { show: false } }],
        axes: [
          secsAxis(),
          valueAxis(value => Number.isInteger(value) && value > 0 ? whole.format(value) : '', { incrs: WHOLE }),
        ],
        cursor: { ...timeCursor(), points: { show: false } },
        legend: { show: false },
        hooks: {
          setScale: [zoomAll],
          draw: [drawBatches(batches)],
          setCursor: [u => {
            const { top } = u.cursor;
            if (top == null || top < 0 || !u.over.matches(':hover')) return;
            const batch = Math.floor(top / u.over.clientHeight * count);
            if (batch >= 0 && batch < count) readout.textContent = sentenceOf(batches, batch);
          }],
        },
      },
      overTime: true,
    };
  };

  const KINDS = { lines, percentiles, sizes, time_line: timeLine };

  // ---- Numbers of a chart ----

  const numbersOfLines = chart => chart.runs.map(run => table(
    ofRun(run.label && `Run ${run.label}`, chart.name),
    [['at, s', true], ...run.lines.map(line => [line.label, true])],
    run.at_secs.map((secs, row) => [
      fixed.format(secs),
      ...run.lines.map(line => written(FORMS[chart.unit], line.values[row])),
    ]),
  ));

  const numbersOfBatches = chart => {
    const batches = shared.batches[chart.run];
    const keyed = batches.batch_key != null;
    const anyInvocations = batches.invocations != null;
    const rows = batches.batch_id.slice(0, batches.rows_max).map((id, batch) => [
      whole.format(batch + 1),
      id,
      ...(keyed ? [batches.batch_key[batch] ?? '–'] : []),
      whole.format(batches.events[batch]),
      whole.format(batches.parts[batch]),
      ...(anyInvocations ? [written(whole.format, batches.invocations[batch])] : []),
      FLUSHES.find(([reason]) => reason === batches.flushed[batch])[1],
      ...['opened', 'sealed', 'leased', 'delivered'].map(name => written(fixed.format, batches[name][batch])),
    ]);
    const columns = [['no.', true], ['batch', false], ...(keyed ? [['key', false]] : []), ['events', true], ['parts', true],
      ...(anyInvocations ? [['invocations', true]] : []), ['closed', false], ['opened, s', true], ['sealed, s', true], ['leased, s', true], ['delivered, s', true]];
    return [table(chart.name, columns, rows)];
  };

  const NUMBERS = { lines: numbersOfLines, sizes: numbersOfBatches, time_line: numbersOfBatches };

  // ---- The page ----

  let drawn = [];

  const draw = host => {
    const chart = charts[host.dataset.chart];
    const { data, options, before, after, height, overTime: synced } = KINDS[chart.kind](chart, host);
    host.replaceChildren();
    if (before) host.append(before);
    const place = make('div');
    host.append(place);
    if (after) host.append(after);
    const size = () => ({ width: host.clientWidth, height: height ?? heightOf(host) });
    const plot = new uPlot({ ...size(), ...options }, data, place);
    if (synced) overTime.push(plot);
    return { host, plot, size };
  };

  const drawAll = () => {
    drawn.forEach(({ plot }) => plot.destroy());
    overTime.length = 0;
    drawn = [...document.querySelectorAll('div.chart')].map(draw);
    document.documentElement.dataset.drawn = drawn.length;
  };

  drawAll();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  const resized = new ResizeObserver(() => drawn.forEach(({ plot, size }) => {
    const { width, height } = size();
    if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
  }));
  resized.observe(document.querySelector('main'));

  for (const details of document.querySelectorAll('details[data-chart]')) {
    details.addEventListener('toggle', () => {
      const chart = charts[details.dataset.chart];
      if (details.open && details.childElementCount === 1) details.append(...NUMBERS[chart.kind](chart));
    });
  }
})();
