# What a figure of matplotlib shows, as data: the mime type e2b/chart. The shape of that data is public (the types
# of the JavaScript client); what is drawn is read off the artists of a figure. Only looked at when a figure is shown.


def chart_unit(label):
    """The last words in brackets of an axis's label: 'Time (s)' has 's'."""
    import re
    found = re.search(r'\(([^()]*)\)\s*$', label or '')
    return found.group(1) if found else None


def chart_number(v):
    v = float(v)
    return v if v - v == 0 else None


def chart_scale(axis):
    from matplotlib import category, dates
    if isinstance(axis.converter if hasattr(axis, 'converter') else axis.get_converter(), category.StrCategoryConverter):
        return 'categorical'
    if isinstance(axis.get_major_locator(), dates.DateLocator) or isinstance(
            axis.get_major_formatter(), (dates.DateFormatter, dates.AutoDateFormatter)):
        return 'datetime'
    return axis.get_scale()


def chart_values(axis, values):
    """Numbers, or where the axis has them times and words."""
    import numpy
    scale = chart_scale(axis)
    values = numpy.asarray(values)
    if scale == 'datetime':
        from matplotlib import dates
        if values.dtype.kind in 'iuf':
            return [dates.num2date(v).isoformat() if v == v else None for v in values.tolist()]
        return [str(v.isoformat()) if hasattr(v, 'isoformat') else str(v) for v in values.tolist()]
    if scale == 'categorical':
        words = {v: k for k, v in axis.units._mapping.items()}
        return [words.get(v, v) if not isinstance(v, str) else v for v in values.tolist()]
    return [chart_number(v) for v in values.astype(float).tolist()]


def chart_is_helper(line):
    """A line without data of its own: axhline, axvline, whose ends are in fractions of the axes."""
    return line.get_transform() != line.axes.transData


def chart_label(artist, number):
    label = artist.get_label()
    return f'Dataset {number}' if not label or str(label).startswith('_') else str(label)


def chart_planar(kind, axes, elements):
    chart = {'type': kind, 'elements': elements}
    for name, axis, label in (('x', axes.xaxis, axes.get_xlabel()), ('y', axes.yaxis, axes.get_ylabel())):
        chart[name + '_label'] = label or None
        chart[name + '_unit'] = chart_unit(label)
        if kind in ('line', 'scatter'):
            chart[name + '_ticks'] = chart_values(axis, axis.get_majorticklocs())
            chart[name + '_tick_labels'] = [t.get_text() for t in axis.get_majorticklabels()]
            chart[name + '_scale'] = chart_scale(axis)
    return chart


def chart_bars(axes, containers):
    elements = []
    for number, bars in enumerate(containers):
        upright = getattr(bars, 'orientation', 'vertical') != 'horizontal'
        axis = axes.xaxis if upright else axes.yaxis
        places = dict(zip(axis.get_majorticklocs(), (t.get_text() for t in axis.get_majorticklabels())))
        label = bars.get_label()
        for bar in bars:
            middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
            near = min(places, key=lambda at: abs(at - middle), default=None)
            if near is not None and abs(near - middle) <= (bar.get_width() if upright else bar.get_height()) / 2:
                word = places[near]
            else:
                word = f'{middle:g}'
            elements.append({'label': word, 'group': f'Group {number}' if str(label).startswith('_') else str(label),
                             'value': chart_number(bar.get_height() if upright else bar.get_width())})
    return chart_planar('bar', axes, elements)


def chart_pie(wedges):
    return {'type': 'pie', 'elements': [{
        'label': str(w.get_label()), 'radius': chart_number(w.r),
        'angle': round(chart_number((w.theta2 - w.theta1)), 4)} for w in wedges]}


def chart_boxes(axes, boxes):
    """A box is a closed line or patch; its median, whiskers and outliers are lines at the same place."""
    import numpy
    lines = [l for l in axes.lines if not chart_is_helper(l)]
    upright = True
    outlines = [(b.get_path().vertices if hasattr(b, 'get_path') and not hasattr(b, 'get_xdata') else
                 numpy.column_stack(b.get_data()))[:5] for b in boxes]
    if len(outlines) > 1:
        upright = numpy.ptp([o[:, 0].mean() for o in outlines]) >= numpy.ptp([o[:, 1].mean() for o in outlines]) or \
            len({round(float(o[:, 0].mean()), 6) for o in outlines}) == len(outlines)
    across, along = (0, 1) if upright else (1, 0)
    axis = axes.xaxis if upright else axes.yaxis
    names = [t.get_text() for t in axis.get_majorticklabels()]
    places = list(axis.get_majorticklocs())
    elements, used = [], set()
    for n, outline in enumerate(outlines):
        left, right = outline[:, across].min(), outline[:, across].max()
        low, high = outline[:, along].min(), outline[:, along].max()
        middle = (left + right) / 2
        if round(float(middle), 6) in used:  # drawn twice at one place
            continue
        used.add(round(float(middle), 6))
        median, ends, outliers = None, [low, high], []
        for line in lines:
            if line in boxes:
                continue
            data = numpy.column_stack([numpy.atleast_1d(v).astype(float) for v in line.get_data()])
            if not len(data) or not (data[:, across] >= left - 1e-9).all() or not (data[:, across] <= right + 1e-9).all():
                continue
            if line.get_linestyle() in ('None', '', ' '):
                outliers += data[:, along].tolist()
            elif len(data) == 2 and data[0, along] == data[1, along]:
                if numpy.isclose(data[0, across], left) and numpy.isclose(data[1, across], right):
                    median = data[0, along]
            elif len(data) == 2 and data[0, across] == data[1, across]:
                ends += data[:, along].tolist()
        where = [i for i, at in enumerate(places) if abs(at - middle) < 1e-6]
        elements.append({
            'label': names[where[0]] if where and where[0] < len(names) else str(n + 1),
            'min': chart_number(min(ends)), 'first_quartile': chart_number(low),
            'median': None if median is None else chart_number(median),
            'third_quartile': chart_number(high), 'max': chart_number(max(ends)),
            'outliers': [chart_number(v) for v in outliers]})
    return chart_planar('box_and_whisker', axes, elements)


def chart_axes(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Wedge

    wedges = [p for p in axes.patches if isinstance(p, Wedge)]
    bars = [c for c in axes.containers if isinstance(c, BarContainer) and len(c)]
    lines = [l for l in axes.lines if not chart_is_helper(l) and len(l.get_xdata())]
    closed = [l for l in lines if isinstance(l, Line2D) and len(l.get_xdata()) == 5 and
              l.get_xdata()[0] == l.get_xdata()[-1] and l.get_ydata()[0] == l.get_ydata()[-1]]
    boxes = [p for p in axes.patches if isinstance(p, PathPatch)] or closed
    points = [c for c in axes.collections if isinstance(c, PathCollection) and len(c.get_offsets())]
    if wedges:
        chart = chart_pie(wedges)
    elif bars:
        chart = chart_bars(axes, bars)
    elif boxes and len(lines) >= 4 * len(boxes):
        chart = chart_boxes(axes, boxes)
    elif points and not lines:
        chart = chart_planar('scatter', axes, [{
            'label': chart_label(c, n),
            'points': list(zip(chart_values(axes.xaxis, c.get_offsets()[:, 0]),
                               chart_values(axes.yaxis, c.get_offsets()[:, 1])))} for n, c in enumerate(points)])
    elif lines:
        chart = chart_planar('line', axes, [{
            'label': chart_label(l, n),
            'points': list(zip(chart_values(axes.xaxis, l.get_xdata(orig=False)),
                               chart_values(axes.yaxis, l.get_ydata(orig=False))))} for n, l in enumerate(lines)])
    else:
        chart = {'type': 'unknown', 'elements': []}
    chart['title'] = axes.get_title() or None
    return chart


def figure_chart(figure):
    """The chart of a figure, None for one without anything in it. Never an exception: the picture is there anyway."""
    try:
        axes = [a for a in figure.axes if a.has_data() or a.get_title() or a.patches or a.artists]
        charts = [chart_axes(a) for a in axes]
    except Exception:
        return None
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if getattr(figure, '_suptitle', None) else None
    return {'type': 'superchart', 'title': title, 'elements': charts}


